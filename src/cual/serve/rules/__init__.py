"""What people and the learner may do to a workspace, and what it comes to. No HTTP, and no computation."""

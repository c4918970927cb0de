"""What takes longer than a blink, in processes of its own. What it may do to the workspace, `rules` say."""

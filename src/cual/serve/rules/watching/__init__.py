"""What predictions say of the world: counted, judged for novelty and drift, told to others. No HTTP here."""

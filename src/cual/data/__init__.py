"""Features and labels at the border: tables on disk and in memory, checked once. Nothing learns here."""

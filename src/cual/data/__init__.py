"""Features and labels at the border: tables of them, on disk and in memory, checked once. Nothing learns here."""

"""What is kept and how: tables, files, backups. What anybody may do with it is decided in `rules`."""

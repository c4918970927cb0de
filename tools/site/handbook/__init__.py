"""What the documentation site is made of: pages from the code, and how pages of GitHub become its own."""

"""Numbers as text, and tables for the terminal, Jupyter, HTML and Markdown."""

"""Parsers of HTML pages, which also check them, and of tables in Markdown."""

from html.parser import HTMLParser


class Balanced(HTMLParser):
    """Fails unless every tag is closed in order."""

    VOID = frozenset({"br", "img", "meta"})

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.attributes = [], [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    @classmethod
    def parse(cls, text):
        parser = cls()
        parser.feed(text)
        parser.close()
        assert not parser.open
        return parser


def cells_of(text):
    """The cells of a table in Markdown, row by row."""
    lines = [line for line in str(text).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def rows_of(text):
    """The header of a table in Markdown, and the other cells of its rows by the first cell."""
    header, _, *rows = cells_of(text)
    return header, {first: rest for first, *rest in rows}

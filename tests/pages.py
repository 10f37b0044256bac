"""A parser of HTML pages, which also checks them."""

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

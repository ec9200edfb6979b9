"""Names that try to be markup, and what is in a page."""

from __future__ import annotations

from html.parser import HTMLParser

EVIL = "<script>alert(1)</script>"
NAME = EVIL.replace("/", "|")  # results are kept under the names of states, which hold no slash


class Structure(HTMLParser):
    """Collects elements, outside addresses and text."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.links, self.text = [], [], ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [v for k, v in attrs if k in ("src", "href") and v and not v.startswith("data:")]

    def handle_data(self, data):
        self.text += data

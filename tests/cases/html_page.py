"""A page of HTML as tests read it."""

from __future__ import annotations

import html.parser


class Page(html.parser.HTMLParser):
    """Tags with their attributes, and the texts of the table cells row by row."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.rows, self.text, self.in_cell = [], [], "", False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self.in_cell = True

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.in_cell = False

    def handle_data(self, data):
        self.text += data
        if self.in_cell:
            self.rows[-1][-1] += data

"""A page of HTML as tests read it."""

from __future__ import annotations

import base64
import hashlib
import html.parser


class Page(html.parser.HTMLParser):
    """Tags with their attributes, and the texts of the table cells row by row."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.rows, self.text, self.in_cell = [], [], "", False
        self.script = ""
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
        if self.cdata_elem is not None:  # inside of a style or a script
            self.script += data * (self.cdata_elem == "script")
            return
        self.text += data
        if self.in_cell:
            self.rows[-1][-1] += data


def alone(text):
    """The page, which loads nothing, and runs only the script that its policy names."""
    page = Page(text)
    assert "http:" not in text and "https:" not in text
    assert "@import" not in text and "url(" not in text
    names = [tag for tag, _ in page.tags]
    assert not {"link", "iframe", "object", "embed", "base", "form"} & set(names)
    assert names.count("script") == names.count("title") == names.count("h1") == 1
    for tag, attributes in page.tags:
        assert not any(name.startswith("on") for name in attributes)
        assert "href" not in attributes
        if "src" in attributes:
            assert tag == "img" and attributes["src"].startswith("data:image/png;base64,")
    (policy,) = (a["content"] for tag, a in page.tags if tag == "meta" and "http-equiv" in a)
    digest = base64.b64encode(hashlib.sha256(page.script.encode()).digest()).decode()
    assert "default-src 'none'" in policy and f"script-src 'sha256-{digest}';" in policy
    return page

"""Runs the examples of a page while the site is built, and shows what they print, draw and return.

A fenced block that begins with ```` ```python run ```` is run; blocks of a page share their names, like the cells of a
notebook. An example that raises ends the build.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import re
import tempfile
import traceback
from html import escape
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from mkdocs.exceptions import PluginError

_BLOCK = re.compile(r"^```python run\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
_FOLDER = tempfile.TemporaryDirectory()  # examples may write files here
_PLACE = '<div data-shown="{}"></div>'


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Run the blocks of a page; results wait on the page until the Markdown around them is HTML."""
    names: dict[str, Any] = {"__name__": "example"}
    page.shown = []

    def run(found: re.Match[str]) -> str:
        code = found["code"]
        try:
            page.shown.append(_result(code, names))
        except Exception as error:
            raise PluginError(
                f"an example on {page.file.src_path} failed:\n{code}\n{traceback.format_exc()}"
            ) from error
        return f"```python\n{code}```\n\n{_PLACE.format(len(page.shown) - 1)}\n"

    return _BLOCK.sub(run, markdown)


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Put the results where they belong."""
    for i, shown in enumerate(getattr(page, "shown", [])):
        html = html.replace(_PLACE.format(i), shown)
    return html


def _result(code: str, names: dict[str, Any]) -> str:
    """What a block prints, the value of its last line if it shows itself as HTML, and its figures."""
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed), contextlib.chdir(_FOLDER.name):
        exec(compile(tree, "<example>", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<example>", "eval"), names)
    parts = [f'<pre class="printed"><code>{escape(printed.getvalue())}</code></pre>'] if printed.getvalue() else []
    if hasattr(value, "_repr_html_"):
        parts.append(f'<div class="value">{value._repr_html_()}</div>')
    parts += [_image(plt.figure(number)) for number in plt.get_fignums()]
    plt.close("all")
    return "".join(parts)


def _image(figure: Any) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    picture = base64.b64encode(buffer.getvalue()).decode()
    return f'<img class="drawn" alt="what the example draws" src="data:image/png;base64,{picture}">'

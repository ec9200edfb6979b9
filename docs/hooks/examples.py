"""Runs the examples of a page while the site is built, and shows what they print, draw and return.

A fenced block that begins with ```` ```python run ```` is run; blocks of a page share their names, like the cells of a
notebook. One that begins with ```` ```console run ```` has a command after each ``$``, and is shown with all that they
say; ``# exit 3`` after a command says the exit code it must have, which is zero otherwise. An example that raises,
or a command that ends in another way, ends the build.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import re
import shlex
import subprocess
import sys
import tempfile
import traceback
from html import escape
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from mkdocs.exceptions import PluginError

_BLOCK = re.compile(r"^```(?P<kind>python|console) run\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"\$ (?P<command>.*?)(?:  # exit (?P<code>\d+))?")
_PROGRESS = re.compile(r"^\[ *\d+ s\] .*\n", re.MULTILINE)
_FOLDER = tempfile.TemporaryDirectory()  # examples may write files here
_PLACE = '<div data-shown="{}"></div>'


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Run the blocks of a page; results wait on the page until the Markdown around them is HTML."""
    names: dict[str, Any] = {"__name__": "example"}
    page.shown = []

    def run(found: re.Match[str]) -> str:
        code = found["code"]
        if found["kind"] == "console":
            return f"```console\n{_transcript(code, page.file.src_path)}```\n"
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


def _transcript(commands: str, where: str) -> str:
    """Commands, one a line, each with what it says; progress is left out."""
    said = []
    for line in filter(None, commands.splitlines()):
        found = _COMMAND.fullmatch(line)
        if found is None:
            raise PluginError(f"a line of a console example on {where} is no command: {line}")
        name, *arguments = shlex.split(found["command"])
        if name != "gpnode":
            raise PluginError(f"console examples run gpnode alone; on {where} there is {line}")
        done = subprocess.run(
            [sys.executable, "-m", "gpnode_command", *arguments],
            cwd=_FOLDER.name,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode != int(found["code"] or 0):
            raise PluginError(f"on {where}, {line}\nended with {done.returncode}:\n{done.stdout}")
        said.append(f"$ {found['command']}\n{_PROGRESS.sub('', done.stdout)}")
    return "\n".join(said)


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

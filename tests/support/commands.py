"""The commands of the command line, and their examples."""

from __future__ import annotations

import argparse
import re
import shlex

import pytest

from gpnode import cli

QUICK = {"method": "laplace", "draws": 200}


def all_commands(parser, before=()):
    """Every command as the words to call it by, those of ``study`` one by one."""
    below = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if not below:
        return [before]
    return [found for name, own in below[0].choices.items() for found in all_commands(own, (*before, name))]


COMMANDS = all_commands(cli._parser())


def help_example(command, capsys):
    """The example at the end of a command's --help, as arguments."""
    with pytest.raises(SystemExit):
        cli.run([*command, "--help"])
    return shlex.split(re.search(r"example: gpnode (.*)", capsys.readouterr().out)[1])

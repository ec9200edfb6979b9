"""One HTML page about a posterior that stands alone: :mod:`~gpnode.render.report.page` assembles it.

The modules here gather what the page shows; the templates of :mod:`gpnode.render.html` say how. ``page.css`` and
``page.js`` are part of the page: it asks for nothing from the network.
"""

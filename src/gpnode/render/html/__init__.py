"""The one renderer of HTML: templates, formulas and small charts, for the report and for notebooks.

Templates say how something looks; what is shown is decided by the callers, who hand over plain text and numbers.
Every text is escaped. May import the tracing of formulas, and nothing else of gpnode.
"""

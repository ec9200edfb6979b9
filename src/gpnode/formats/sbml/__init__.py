"""SBML: what a file says, how it is simulated, and the model that a fit can take.

It may import the room of formats, the data and the model. Only :mod:`.document` and what it opens knows libsbml.
"""

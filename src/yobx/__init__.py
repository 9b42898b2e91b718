"""Make ``torch.export.export`` work on real models, and keep the exported program as general as the model.

Importing ``yobx`` imports neither torch nor transformers. See :mod:`yobx.autopatch` for the switches and
:mod:`yobx.torch` for the scope used inside an export pipeline.
"""

__version__ = "0.1.0"

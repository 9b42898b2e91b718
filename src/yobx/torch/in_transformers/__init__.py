"""The transformers family: one file per concern. Importing it declares the patches and loads no transformers."""

from yobx.helpers.catalogue import declare_all

declare_all(__name__, __path__)

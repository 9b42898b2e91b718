"""The torch family: one file per torch module that it patches. Importing it declares the patches and loads no torch."""

from yobx.helpers.catalogue import declare_all

declare_all(__name__, __path__)

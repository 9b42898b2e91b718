"""The parts of the ``yobx`` command, one file each."""

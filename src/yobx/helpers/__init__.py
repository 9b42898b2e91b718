"""What a patch is, for those who write and read them."""

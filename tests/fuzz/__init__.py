"""Random answers for both decoders, for as long as one likes."""

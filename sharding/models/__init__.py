"""Models as ONNX graphs: built-in ones made from a seed, and files."""

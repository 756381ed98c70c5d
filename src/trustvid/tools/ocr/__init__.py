"""Text recognition models and what they need: rectified crops in, words out."""

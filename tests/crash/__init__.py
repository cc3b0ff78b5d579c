"""The crash matrix: the process ends between every two steps of every operation, and a new one finishes the story."""

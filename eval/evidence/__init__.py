"""What a report shows beyond the result tables: one file a piece of evidence, its numbers as a frame and its figure."""

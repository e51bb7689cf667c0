"""What happened when: spans, timelines and the Chrome trace format."""

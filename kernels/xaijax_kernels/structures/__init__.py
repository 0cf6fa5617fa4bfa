"""What is known of a model beyond its answers, and what can be asked less because of it."""

"""What the gateway answers to: one module for each part of the API, its handlers and where they are."""

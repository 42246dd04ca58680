"""All that is known of each vendor, pure: how it is reached, its models, its wire to ours and back, its errors."""

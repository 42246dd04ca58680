"""Chat completions: the wire that nearly every model server speaks, with a row for each kind of server."""

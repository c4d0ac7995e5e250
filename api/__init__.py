"""isthmus turns models into something that runs elsewhere."""

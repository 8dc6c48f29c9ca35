"""Real ZooKeeper servers on this machine, and what is tested on them."""

"""Groups whose members agree among themselves: JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""

"""Why a backup cannot be made, read or restored."""


class BackupError(Exception):
    """A backup that cannot go on; the text is a sentence that says why and what to do."""


class NotStored(BackupError):
    """The store has no file of that name."""


class DamagedBackup(BackupError):
    """A stored file is not what the manifest says."""

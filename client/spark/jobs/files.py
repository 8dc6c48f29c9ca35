"""Directories wherever Spark can write: through Hadoop's own file systems, in the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Files:
    """Of one place, such as ``/data/x``, ``hdfs://...`` or ``s3a://...``."""

    def __init__(self, spark: SparkSession, place: str) -> None:
        # Of the driver's Java side; a session by Spark Connect has none.
        context = spark.sparkContext
        self._gateway: Any = context._gateway
        self._jvm: Any = context._jvm
        java_context: Any = context._jsc
        self._configuration = java_context.hadoopConfiguration()
        self.place = place
        self._system = self._path().getFileSystem(self._configuration)

    def path(self, *names: str) -> str:
        """Of something in it."""
        return "/".join((self.place.rstrip("/"), *names))

    def directories(self) -> list[str]:
        """The names of its directories; none if it is not there."""
        root = self._path()
        if not self._system.exists(root):
            return []
        return [
            status.getPath().getName()
            for status in self._system.listStatus(root)
            if status.isDirectory()
        ]

    def read(self, *names: str) -> str | None:
        """A small file's text, None if it is not there."""
        path = self._path(*names)
        if not self._system.exists(path):
            return None
        stream = self._system.open(path)
        try:
            data = self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream)
        finally:
            stream.close()
        return bytes(data).decode("utf-8")

    def write(self, text: str, *names: str) -> None:
        """A small file, which is whole when this returns."""
        stream = self._system.create(self._path(*names), True)
        try:
            stream.write(bytearray(text.encode("utf-8")))
        finally:
            stream.close()

    def rename(self, old: str, new: str) -> None:
        """A directory, at once; fails if there is one of the new name."""
        fs = self._jvm.org.apache.hadoop.fs
        context = fs.FileContext.getFileContext(self._system.getUri(), self._configuration)
        # Other than FileSystem's, this one never moves into a directory that is there already.
        none = self._gateway.new_array(getattr(fs, "Options$Rename"), 0)
        context.rename(self._path(old), self._path(new), none)

    def delete(self, *names: str) -> None:
        """With all that is in it; what is not there is deleted."""
        self._system.delete(self._path(*names), True)

    def _path(self, *names: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.path(*names))

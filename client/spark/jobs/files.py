"""Accesses directories wherever Spark can write, with Hadoop's file systems in the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Files:
    """One directory, such as ``/data/x``, ``hdfs://...`` or ``s3a://...``."""

    def __init__(self, spark: SparkSession, place: str) -> None:
        # Needs the driver's JVM, which a Spark Connect session does not have.
        context = spark.sparkContext
        self._gateway: Any = context._gateway
        self._jvm: Any = context._jvm
        java_context: Any = context._jsc
        self._configuration = java_context.hadoopConfiguration()
        self.place = place
        self._system = self._path().getFileSystem(self._configuration)

    def path(self, *names: str) -> str:
        """The path of an entry in the directory."""
        return "/".join((self.place.rstrip("/"), *names))

    def directories(self) -> list[str]:
        """The names of its subdirectories; empty if it does not exist."""
        root = self._path()
        if not self._system.exists(root):
            return []
        return [
            status.getPath().getName()
            for status in self._system.listStatus(root)
            if status.isDirectory()
        ]

    def read(self, *names: str) -> str | None:
        """A small file's text; None if it does not exist."""
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
        """Write a small file, which is complete on return."""
        stream = self._system.create(self._path(*names), True)
        try:
            stream.write(bytearray(text.encode("utf-8")))
        finally:
            stream.close()

    def rename(self, old: str, new: str) -> None:
        """Rename a directory atomically; fails if the new name exists."""
        fs = self._jvm.org.apache.hadoop.fs
        context = fs.FileContext.getFileContext(self._system.getUri(), self._configuration)
        # Unlike FileSystem.rename, this never moves into an existing directory.
        none = self._gateway.new_array(getattr(fs, "Options$Rename"), 0)
        context.rename(self._path(old), self._path(new), none)

    def delete(self, *names: str) -> None:
        """Delete recursively; a missing path is not an error."""
        self._system.delete(self._path(*names), True)

    def _path(self, *names: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.path(*names))

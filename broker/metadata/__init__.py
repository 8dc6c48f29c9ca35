"""What this broker knows of the cluster: the metadata image, settings and features."""

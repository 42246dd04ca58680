"""Blobs as objects of a bucket, on any server that speaks S3."""

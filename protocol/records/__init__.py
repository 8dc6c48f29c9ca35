"""Record batches: header view, records, builder, control batches, codecs, checksum."""

-- Blocks of metadata of the database in use, by number, and the bytes of one.
SELECT block_id, block_size
FROM pragma_metadata_info(), pragma_database_size() AS size
WHERE size.database_name = current_database()

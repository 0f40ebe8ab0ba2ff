-- Parts of the table of logs: checkpoints that took in a log and left it in a part of its own.
SELECT count(DISTINCT row_group_id) FROM pragma_storage_info('batch')

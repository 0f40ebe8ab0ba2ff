DELETE FROM reject_errors

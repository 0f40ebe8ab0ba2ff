-- Nobody noted which names the first log had, and by now somebody may have looked.
INSERT INTO meta SELECT 'first_apis', '' WHERE EXISTS (FROM batch WHERE stored > 0)

-- Earlier versions gave every look the whole of delta, so there is none left for a first one.
INSERT INTO meta SELECT 'first_look', 'every' WHERE EXISTS (FROM batch WHERE stored > 0)

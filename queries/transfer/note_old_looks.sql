-- Exports of earlier versions do not say who looked at their users: see schema 9.
INSERT OR IGNORE INTO meta
SELECT unnest(['first_look', 'first_apis']), unnest(['every', '']) WHERE EXISTS (FROM batch WHERE stored > 0)

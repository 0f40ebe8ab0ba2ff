-- A 64-bit word for each visit from its user, time and source alone, and one from its batch as well.
SELECT
    visit_id,
    ('0x' || sha256(text)[:16])::UBIGINT AS word,
    ('0x' || sha256(COALESCE(batch.digest, '') || text)[:16])::UBIGINT AS row_word
FROM (
    SELECT visit_id, batch_id, concat_ws(' ', user.digest, COALESCE(epoch_us("time")::VARCHAR, '-'), source.name) AS text
    FROM visit
    LEFT JOIN user USING (user_id)
    LEFT JOIN source USING (source_id)
)
LEFT JOIN batch USING (batch_id)
ORDER BY visit_id

-- A 64-bit word for each visit from its user, time, source and names alone, and one from its batch as well.
SELECT
    visit_id,
    ('0x' || sha256(text)[:16])::UBIGINT AS word,
    ('0x' || sha256(COALESCE(batch.digest, '') || text)[:16])::UBIGINT AS row_word
FROM (
    SELECT visit_id, batch_id, concat_ws(' ', user.digest, COALESCE(epoch_us("time")::VARCHAR, '-'), source.name, page_view.view, page_view.session) AS text
    FROM visit
    LEFT JOIN user USING (user_id)
    LEFT JOIN source USING (source_id)
    LEFT JOIN page_view USING (visit_id)
)
LEFT JOIN batch USING (batch_id)
ORDER BY visit_id

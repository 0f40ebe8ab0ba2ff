SELECT batch.source, reject.line, reject.reason, reject.excerpt FROM reject JOIN batch USING (batch_id) ORDER BY batch_id, line LIMIT $most

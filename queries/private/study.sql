SELECT content FROM study

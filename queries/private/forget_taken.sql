DELETE FROM taken WHERE ask = $ask

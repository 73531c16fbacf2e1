-- A row that may be new: inserted, or changed unless a later holder has written. No row comes back: refused.
INSERT INTO accounts(id, balance, fence) VALUES (:id, :balance, :fence)
ON CONFLICT (id) DO UPDATE SET balance = excluded.balance, fence = excluded.fence
WHERE accounts.fence <= excluded.fence
RETURNING id;

-- In a transaction whose next statements are on their way: if they do not come, it must not hold up others for long.
SELECT set_config('idle_in_transaction_session_timeout', '2000', true)

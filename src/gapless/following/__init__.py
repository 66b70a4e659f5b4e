"""Following the head of a chain: new blocks first, through reorganisations, for months.

sighting    what one endpoint says about the head, compared with what is known
state       what a follow knows of the chain, as its cursor in the ledger stores it
steps       what to do about a sighting: plan new blocks, or retract a branch
hints       wakes a follower early, when an endpoint announces a block
next_block  when the next block is due
head_watch  sees the head, tells others about it, and says when to look again
lease       keeps the lease while a turn lasts
follower    makes the steps, one per block, while it holds the lease
job         the job `follow`: stores one new block, or retracts a branch
request     validates a follow; `creation` creates it
"""

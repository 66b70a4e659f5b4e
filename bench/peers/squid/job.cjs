// Blocks, transactions and logs by squid's evm-processor, with its defaults, into CSV files:
//
//   node job.cjs URL FOLDER FIRST LAST
//
// A squid brings its own database. This one appends each batch to three files, with the keys and
// the fields that the other tools store as well; there is no store that does less.
const fs = require('fs')
const path = require('path')
const { EvmBatchProcessor } = require('@subsquid/evm-processor')

const [url, folder, first, last] = process.argv.slice(2)

const TABLES = {
  blocks: ['number', 'hash', 'parentHash', 'timestamp', 'gasUsed', 'baseFeePerGas'],
  transactions: [
    'block_number', 'transactionIndex', 'hash', 'from', 'to', 'value', 'nonce', 'input', 'gas',
    'gasPrice', 'type', 'gasUsed', 'cumulativeGasUsed', 'status',
  ],
  logs: ['block_number', 'logIndex', 'transactionIndex', 'transactionHash', 'address', 'data', 'topics'],
}

const KEYS = new Set(['number', 'hash', 'parentHash', 'block_number', 'transactionIndex', 'logIndex'])
const selected = (table) =>
  Object.fromEntries(TABLES[table].filter((name) => !KEYS.has(name)).map((name) => [name, true]))

const files = Object.fromEntries(
  Object.keys(TABLES).map((table) => {
    const file = fs.openSync(path.join(folder, `${table}.csv`), 'w')
    fs.writeSync(file, TABLES[table].join(',') + '\n')
    return [table, file]
  })
)

const cell = (value) => (Array.isArray(value) ? value.join(' ') : value ?? '')

function append(table, height, rows) {
  const line = (row) =>
    TABLES[table].map((name) => cell(name === 'block_number' ? height : row[name])).join(',') + '\n'
  return rows.map(line).join('')
}

const database = {
  async connect() {
    return { height: Number(first) - 1, hash: '0x' }
  },
  async transact(info, write) {
    await write({})
  },
}

new EvmBatchProcessor()
  .setRpcEndpoint(url)
  .setFinalityConfirmation(64)
  .setBlockRange({ from: Number(first), to: Number(last) })
  .setFields({
    block: selected('blocks'),
    transaction: { ...selected('transactions'), hash: true },
    log: selected('logs'),
  })
  .includeAllBlocks()
  .addTransaction({})
  .addLog({})
  .run(database, async (batch) => {
    const texts = { blocks: '', transactions: '', logs: '' }
    for (const block of batch.blocks) {
      const height = block.header.height
      texts.blocks += append('blocks', height, [{ ...block.header, number: height }])
      texts.transactions += append('transactions', height, block.transactions)
      texts.logs += append('logs', height, block.logs)
    }
    for (const table in texts) fs.writeSync(files[table], texts[table])
  })
